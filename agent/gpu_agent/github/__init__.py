"""Access to GitHub: the App's token, REST calls and the registration of one runner."""
