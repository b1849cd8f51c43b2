"""The mailbox of machines without a metadata server: their records and their channel, in a bucket of either cloud."""
