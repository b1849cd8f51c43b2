"""The policies of other runner managers, modelled on their code or documentation, with our clouds and prices."""
