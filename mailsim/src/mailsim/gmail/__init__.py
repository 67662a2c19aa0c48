"""The simulated Gmail API: methods, JSON formats, history, search, batch requests, quotas, watches."""
