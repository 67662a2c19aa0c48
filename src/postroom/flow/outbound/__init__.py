"""Outbound: events to the webhooks of other applications and to Parquet files, notices to people.

    webhooks       add, change, replay, test and remove webhooks
    deliver        send events: signed, at least once, in order per entity
    event_bodies   an event as the body of a request: Standard Webhooks or CloudEvents
    webhook_urls   check the URLs that people enter
    notices        add, change and remove the destinations of notices
    send_notices   send due notices to a destination, except in quiet hours
    notice_bodies  a notice as text, for Slack and for Teams
    export         write what changed to files, each named by its range of positions
    export_tables  the exported tables: their columns and rows
    parquet_files  the files: their names, how they are written and found

A delivery:  new event ── accepted ──▶ done (the webhook's position advances)
                 └── refused ──▶ row in `deliveries` ── retry with backoff ──┬── accepted ──▶ done
                                                                             └── too old ──▶ given up

A notice:  condition ── true ──▶ announced ── reminded every day ──▶ no longer true ──▶ resolved

A webhook:  enabled ── nothing accepted for three days ──▶ disabled ── enable or replay ──▶ enabled
"""
