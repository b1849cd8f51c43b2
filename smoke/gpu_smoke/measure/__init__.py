"""All that touches a driver or torch: it runs in children and returns plain numbers; judge/ says what they mean."""
