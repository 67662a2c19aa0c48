"""The simulated Gmail API: methods, JSON formats, history, search, batch requests, quotas, watches.

Sign-in and Pub/Sub are in `mailsim.google`.
"""
