"""What stands between the network and the application: limits on connections and bodies, headers of answers."""
