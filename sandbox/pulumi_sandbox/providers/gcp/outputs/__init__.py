"""Ids and outputs of Google resources, in the form in which the real provider reads them back."""
