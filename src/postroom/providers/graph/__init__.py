"""Microsoft 365: OAuth at Entra, mail by Microsoft Graph, push by Graph subscriptions."""
