"""HTTP clients: the adapters of Gmail and Microsoft 365, OpenID sign-in, webhooks, the simulator.

`gmail` and `graph` implement `ports.Provider`, with the same file names in both. No SQL.
"""
