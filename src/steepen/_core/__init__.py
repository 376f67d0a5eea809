"""Shared by directions, steps and drivers: arrays, records, bounds, tests of a point. Never evaluates f."""
