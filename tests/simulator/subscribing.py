"""Orders for subscriptions that are right, or wrong in one way."""

import datetime as dt


def now(user):
    return dt.datetime.fromisoformat(user.simulation.get("clock")["now"])


def later(user, **span):
    return (now(user) + dt.timedelta(**span)).isoformat().replace("+00:00", "Z")


def order(user, hook, **more):
    fixed = {
        "changeType": "created,updated,deleted",
        "notificationUrl": hook.url,
        "resource": "me/messages",
        "expirationDateTime": later(user, days=1),
        "clientState": "secret",
    }
    return {name: value for name, value in {**fixed, **more}.items() if value is not None}


def subscribe(user, hook, **more):
    return user.post("/subscriptions", order(user, hook, **more))


def refused(user, hook, status=400, **more):
    return user.refused(status, "/subscriptions", "POST", json=order(user, hook, **more))
