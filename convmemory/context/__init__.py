"""The filter pipeline that builds what a model is sent."""
