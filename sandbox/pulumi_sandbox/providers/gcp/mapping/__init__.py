"""Tables from properties in Pulumi to fields of Google's APIs, where the names differ."""
