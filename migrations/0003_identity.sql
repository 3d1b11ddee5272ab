-- Sessions that end at once, password resets, deleted users. It only adds: the version before runs beside it.
-- runs-with: 2

-- Access tokens carry the generation of their user and end when it rises. A token without it counts as generation 0.
-- A deleted user keeps its row, so that "created by" keeps a name; its address moves to deleted_email, which frees it for another user.
ALTER TABLE relayops.user_accounts
  ADD COLUMN generation bigint NOT NULL DEFAULT 0,
  ADD COLUMN deleted_at timestamptz,
  ADD COLUMN deleted_email text;

-- A trigger, so that no statement can forget it: processes of the version before and operators change users as well.
CREATE FUNCTION relayops.raise_generation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.generation := OLD.generation + 1;
  RETURN NEW;
END
$$;
CREATE TRIGGER user_accounts_generation
  BEFORE UPDATE OF role, disabled_at, password_hash, deleted_at ON relayops.user_accounts
  FOR EACH ROW WHEN (
    OLD.role IS DISTINCT FROM NEW.role OR OLD.disabled_at IS DISTINCT FROM NEW.disabled_at
    OR OLD.password_hash IS DISTINCT FROM NEW.password_hash OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at)
  EXECUTE FUNCTION relayops.raise_generation();

-- Keyed hash of the client's address (IPv6: its /64) that a session was opened or refreshed from: an address that its user is known at.
ALTER TABLE relayops.refresh_tokens ADD COLUMN origin_hash bytea;
CREATE INDEX refresh_tokens_origin ON relayops.refresh_tokens (user_id, origin_hash) WHERE origin_hash IS NOT NULL;

-- One-time tokens by which a user sets a new password. At most one a user.
CREATE TABLE relayops.password_resets (
  token_hash       bytea PRIMARY KEY,
  user_id          uuid NOT NULL UNIQUE REFERENCES relayops.user_accounts,
  tenant_id        uuid NOT NULL,
  -- Must still be allowed to manage the user when the token is used.
  created_by       text NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  expires_at       timestamptz NOT NULL
);
