"""Protects the machine's identity in a later boot of this disk, in which processes of an earlier job may start.

A job may have created a timer or service that starts at the boot (loginctl enable-linger), or a key for a login. Such a
process runs as the runner's user. The rules of the network isolation block it from the identity, if they are loaded
before it starts.
"""

from __future__ import annotations

from pathlib import Path

from ..machine.system import PATH, System, User

RULES = Path("/etc/gpu-agent/cut.nft")
UNIT = Path("/etc/systemd/system/gpu-agent-cut.service")
# Ordered like Debian's nftables.service, and after it, because that service begins with `flush ruleset`. network-pre
# comes before every interface (systemd.special(7)), and user-sessions before every login and lingering user.
_UNIT = f"""[Unit]
Description=Keep the jobs of an earlier boot from the machine's identity
DefaultDependencies=no
Wants=network-pre.target
After=local-fs.target nftables.service
Before=network-pre.target systemd-user-sessions.service

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PATH={PATH}
ExecStart=nft -f {RULES}

[Install]
WantedBy=sysinit.target
"""


def block_at_boot(rules: str, system: System) -> None:
    """Make systemd load these nft rules at each boot before the network starts. Raises AgentExit("not-isolated")."""
    if not system.has_systemd():
        return
    RULES.parent.mkdir(parents=True, exist_ok=True)
    RULES.write_text(rules)
    UNIT.write_text(_UNIT)
    system.must("not-isolated", ["systemctl", "enable", UNIT.name])


def disable_services_of(user: User, system: System) -> None:
    """Prevent systemd from starting the user's own services, now and at each boot. Raises AgentExit("not-isolated")."""
    if system.has_systemd():
        # Only the user's service manager starts lingering services (user@.service(5)).
        system.must("not-isolated", ["systemctl", "mask", "--now", f"user@{user.uid}.service"])
