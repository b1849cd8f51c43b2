"""The emulated GitHub.

provider.py implements the hooks of a cloud. actions/ emulates workflow runs, jobs and runners. app_api.py serves the
calls of GitHub's REST API that Apps make.
"""
