"""Between the network and the application: limits on connections and bodies, and headers of responses."""
