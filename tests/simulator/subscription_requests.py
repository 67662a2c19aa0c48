"""Valid and invalid requests for Graph subscriptions."""

import datetime as dt


def now(user):
    return dt.datetime.fromisoformat(user.simulation.get("clock")["now"])


def later(user, **span):
    return (now(user) + dt.timedelta(**span)).isoformat().replace("+00:00", "Z")


def subscription_request(user, receiver, **changes):
    defaults = {
        "changeType": "created,updated,deleted",
        "notificationUrl": receiver.url,
        "resource": "me/messages",
        "expirationDateTime": later(user, days=1),
        "clientState": "secret",
    }
    return {name: value for name, value in {**defaults, **changes}.items() if value is not None}


def subscribe(user, receiver, **changes):
    return user.post("/subscriptions", subscription_request(user, receiver, **changes))


def subscription_error(user, receiver, status=400, **changes):
    return user.expect_error(
        status, "/subscriptions", "POST", json=subscription_request(user, receiver, **changes)
    )
