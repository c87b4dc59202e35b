"""Read pickled checkpoints without unpickling: nothing in the file is run."""
