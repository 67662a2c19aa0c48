"""Simulated Microsoft Entra ID: sign-in pages, token endpoint, discovery. Independent of mail."""
