"""Simulated Google services besides mail: OAuth clients, consent, tokens, signing keys, Pub/Sub push.

The mail API is in `mailsim.gmail`.
"""
