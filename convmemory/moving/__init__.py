"""Moving and copying of conversations and documents between a person's archive and their spaces."""
