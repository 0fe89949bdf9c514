"""How pages write dates in each language; what is not said here is as Django has it."""
