"""Simulated Microsoft Graph for mail: messages, folders, delta, batch, subscriptions, throttling.

Sign-in is in `mailsim.entra`.
"""
