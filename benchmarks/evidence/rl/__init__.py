"""Reinforcement learning: PPO under changed dynamics, and GRPO on a reward that can be hacked."""
