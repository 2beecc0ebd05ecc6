"""The read-only functions (`aws.get_...`), grouped by what they ask about."""
