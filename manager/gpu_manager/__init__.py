"""The runner manager: starts a machine for each queued job of GitHub Actions, and deletes the machine after the job.

Terms of this package:

- supplier: a vendor of machines, such as Compute Engine (suppliers/).
- machine: a VM of a pool, from its supplier. The agent (gpu_agent) runs on it, and starts GitHub's runner for one job.
- pass: one round of the manager: observe, decide, save the memory, act (loop.py).
- sweep: the reading of all jobs and runners from GitHub, one part of each pass (github/sweep.py).
- observation: everything that one pass has read from GitHub and the supplier (model.Observation).
- memory: the facts that the manager stores between two passes (memory.py).
- offer: a zone, a machine type, a market and a price of a supplier (model.Offer).
- rung: one step of a pool's capacity ladder, which is an offer.
- stockout: the supplier's answer that a place has no capacity. A place is one zone, machine type and market.
- standby: the state of a machine that is stopped and waits for a job (decision/standby.py).
- lease: a lock that ends by itself if its holder does not renew it. Only the manager with the lease acts (stores/).
"""
