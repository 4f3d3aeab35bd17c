"""A member: the node's configuration names the folder in which it committed."""

from flwr.clientapp import ClientApp

from fedaudit.flower import take_part

app = ClientApp()
take_part(app)
