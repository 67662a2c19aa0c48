"""The Gmail API over the simulated mailboxes: methods, wire shapes, history, search, batch, quotas, watch."""
