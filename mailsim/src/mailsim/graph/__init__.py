"""Simulated Microsoft Graph for mail: messages, folders, delta, batch, subscriptions, throttling."""
