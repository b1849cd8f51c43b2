"""The danger rules, one module for each kind."""
