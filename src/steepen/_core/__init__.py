"""What directions, steps and drivers share: arrays, records, the box, the floor; no driver, no evaluator."""
