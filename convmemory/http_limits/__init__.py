"""Wrappers between the network and the application: limits on connections and bodies, and response headers."""
