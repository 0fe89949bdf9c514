"""The filter pipeline that builds the context of a model."""
