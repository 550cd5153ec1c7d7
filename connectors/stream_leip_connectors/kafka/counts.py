"""What a partition brought."""

from dataclasses import dataclass


@dataclass
class Counts:
    """What a partition brought, since its first event: `lost` to retention, keys that `expired`."""

    events: int = 0
    bad: int = 0
    late: int = 0
    updates: int = 0
    lost: int = 0
    expired: int = 0

    def add(self, now: "Counts", before: "Counts") -> None:
        """Add what came between two counts."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(now, name) - getattr(before, name))

    def __str__(self) -> str:
        more = [
            f"{getattr(self, name):,} {name}"
            for name in ("bad", "late", "lost", "expired")
            if getattr(self, name)
        ]
        return ", ".join([f"{self.events:,} events", f"{self.updates:,} updates", *more])
