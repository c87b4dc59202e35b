"""The comparison of a validation: cases, random values, updates of optimizers, training steps."""
