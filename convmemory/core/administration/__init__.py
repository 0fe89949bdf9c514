"""The admin site, and the bases of its pages."""
