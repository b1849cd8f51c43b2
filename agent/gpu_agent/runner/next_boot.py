"""What a later boot of this disk begins with: what a job left there may be started before the agent is.

A timer or service of the user's that lingers (loginctl enable-linger), a login by a key in its home: each would run as
the runner's user, so that the cut holds for it too as soon as it stands.
"""

from __future__ import annotations

from pathlib import Path

from ..machine.system import PATH, System, User

RULES = Path("/etc/gpu-agent/cut.nft")
UNIT = Path("/etc/systemd/system/gpu-agent-cut.service")
# Ordered as Debian's nftables.service is, and behind it, because its rules begin with `flush ruleset`. network-pre is
# before every interface (systemd.special(7)), and user-sessions before every login and lingering user.
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


def keep_cut(rules: str, system: System) -> None:
    """Have systemd load these rules of nft at each boot, before there is a network. AgentExit("not-isolated")."""
    if not system.has_systemd():
        return
    RULES.parent.mkdir(parents=True, exist_ok=True)
    RULES.write_text(rules)
    UNIT.write_text(_UNIT)
    system.must("not-isolated", ["systemctl", "enable", UNIT.name])


def start_nothing_of(user: User, system: System) -> None:
    """Keep systemd from starting the user's own services, now and at each boot. AgentExit("not-isolated")."""
    if system.has_systemd():
        # What lingers is started by its manager, and by nothing else (user@.service(5)).
        system.must("not-isolated", ["systemctl", "mask", "--now", f"user@{user.uid}.service"])
