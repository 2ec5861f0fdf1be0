"""The paper: from stored trials to a folder that compiles."""
