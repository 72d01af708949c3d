"""Judges one candidate kernel: does it compute what the reference computes, and how fast?"""

EVALUATOR_VERSION = 3
"""Part of every cell's identity: raised when the same candidate may get another verdict or other times than before."""
