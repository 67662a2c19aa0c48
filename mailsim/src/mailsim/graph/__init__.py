"""Microsoft Graph for mail: shapes, folders, messages, delta, batch, subscriptions, throttling."""
