-- Records that a person gave the right password from an address, and deletes their old addresses.
WITH forgotten AS (
    DELETE FROM sign_in_knownaddress
    WHERE owner_id = %(owner)s AND address_hash <> %(address)s AND succeeded_at < clock_timestamp() - %(forget)s
)

INSERT INTO sign_in_knownaddress AS k (owner_id, address_hash, succeeded_at)
VALUES (%(owner)s, %(address)s, clock_timestamp())
ON CONFLICT (owner_id, address_hash) DO UPDATE SET succeeded_at = excluded.succeeded_at
