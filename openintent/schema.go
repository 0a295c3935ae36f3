package openintent

// schema is every step that these tables have taken; a released one never changes.
// Times are microseconds of Unix time, 0 for none. A doc is the object as it is
// answered.
var schema = []string{`
CREATE TABLE openintent_intent (
	row    INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE,
	doc    TEXT NOT NULL,
	access TEXT NOT NULL
) STRICT;

CREATE TABLE openintent_agent (
	home TEXT NOT NULL,
	id   TEXT NOT NULL,
	doc  TEXT NOT NULL,
	PRIMARY KEY (home, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE openintent_task (
	id     TEXT PRIMARY KEY,
	intent INTEGER NOT NULL REFERENCES openintent_intent,
	doc    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE openintent_coordinator (
	id     TEXT PRIMARY KEY,
	intent INTEGER NOT NULL REFERENCES openintent_intent,
	doc    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE openintent_event (
	seq      INTEGER PRIMARY KEY,
	intent   INTEGER NOT NULL REFERENCES openintent_intent,
	sequence INTEGER NOT NULL,
	type     TEXT NOT NULL,
	at       INTEGER NOT NULL,
	trace    TEXT NOT NULL,
	doc      TEXT NOT NULL,
	UNIQUE (intent, sequence)
) STRICT;
CREATE INDEX openintent_event_trace ON openintent_event (trace) WHERE trace <> '';

CREATE TABLE openintent_channel (
	row    INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE,
	intent INTEGER NOT NULL REFERENCES openintent_intent,
	doc    TEXT NOT NULL
) STRICT;
CREATE INDEX openintent_channel_intent ON openintent_channel (intent);

CREATE TABLE openintent_message (
	seq         INTEGER PRIMARY KEY,
	channel     INTEGER NOT NULL REFERENCES openintent_channel ON DELETE CASCADE,
	number      INTEGER NOT NULL,
	id          TEXT NOT NULL,
	kind        TEXT NOT NULL,
	sender      TEXT NOT NULL,
	recipient   TEXT NOT NULL,
	correlation TEXT NOT NULL,
	at          INTEGER NOT NULL,
	expires     INTEGER NOT NULL,
	deadline    INTEGER NOT NULL,
	answered    INTEGER NOT NULL,
	lead        INTEGER NOT NULL,
	recipients  TEXT NOT NULL,
	receipts    INTEGER NOT NULL,
	given       INTEGER NOT NULL,
	head        BLOB NOT NULL,
	UNIQUE (channel, number)
) STRICT;
CREATE UNIQUE INDEX openintent_message_given ON openintent_message (id) WHERE given = 1;
CREATE INDEX openintent_message_open ON openintent_message (deadline) WHERE kind = 'request' AND answered = 0;

CREATE TABLE openintent_receipt (
	message INTEGER NOT NULL REFERENCES openintent_message ON DELETE CASCADE,
	agent   TEXT NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE openintent_relayed (
	seq    INTEGER PRIMARY KEY,
	host   TEXT NOT NULL,
	cursor INTEGER NOT NULL,
	doc    TEXT NOT NULL
) STRICT;
CREATE INDEX openintent_relayed_host ON openintent_relayed (host, seq);

CREATE TABLE openintent_feed (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	last INTEGER NOT NULL
) STRICT;

CREATE TABLE openintent_sent (
	channel INTEGER NOT NULL REFERENCES openintent_channel ON DELETE CASCADE,
	sender  TEXT NOT NULL,
	key     TEXT NOT NULL,
	hash    BLOB NOT NULL,
	at      INTEGER NOT NULL,
	doc     BLOB NOT NULL,
	PRIMARY KEY (channel, sender, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX openintent_sent_at ON openintent_sent (at);
`,
	// What was said outlives the channel, and is the id of the message rather than
	// all of it: who repeats it has the rest.
	`
DROP INDEX openintent_sent_at;
ALTER TABLE openintent_sent RENAME TO openintent_sent_before;
CREATE TABLE openintent_sent (
	key       TEXT NOT NULL,
	home      TEXT NOT NULL,
	sender    TEXT NOT NULL,
	channel   TEXT NOT NULL,
	hash      BLOB NOT NULL,
	at        INTEGER NOT NULL,
	id        TEXT NOT NULL,
	recipient TEXT NOT NULL,
	PRIMARY KEY (key, home, sender, channel)
) STRICT, WITHOUT ROWID;
CREATE INDEX openintent_sent_at ON openintent_sent (at);
INSERT INTO openintent_sent
	SELECT s.key, coalesce(json_extract(i.access, '$.homes."' || s.sender || '"'), ''), s.sender, c.id, s.hash, s.at,
		CAST(s.doc AS TEXT) ->> 'id', coalesce(CAST(s.doc AS TEXT) ->> 'to', '')
	FROM openintent_sent_before s JOIN openintent_channel c ON c.row = s.channel JOIN openintent_intent i ON i.row = c.intent;
DROP TABLE openintent_sent_before;
`, `
CREATE INDEX openintent_sent_home ON openintent_sent (home, at);
`, `
CREATE TABLE openintent_grave (
	channel INTEGER PRIMARY KEY REFERENCES openintent_channel ON DELETE CASCADE
) STRICT;
`, `
CREATE TABLE openintent_leaver (
	name TEXT PRIMARY KEY,
	doc  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`,
	// What other daemons' agents have written on an intent, in bytes of messages and
	// events and in events. Intent 0 says that it was counted.
	`
CREATE TABLE openintent_share (
	intent INTEGER NOT NULL,
	home   TEXT NOT NULL,
	bytes  INTEGER NOT NULL,
	events INTEGER NOT NULL,
	PRIMARY KEY (intent, home)
) STRICT, WITHOUT ROWID;
`,
	// Who has used an intent, and since when: a row each, since there may be thousands.
	// It stood in the access.
	`
CREATE TABLE openintent_used (
	intent INTEGER NOT NULL REFERENCES openintent_intent,
	home   TEXT NOT NULL,
	id     TEXT NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (intent, home, id)
) STRICT, WITHOUT ROWID;
INSERT INTO openintent_used SELECT i.row, h.key, u.key, u.value FROM openintent_intent i, json_each(i.access, '$.used') h, json_each(h.value) u;
UPDATE openintent_intent SET access = json_remove(access, '$.used') WHERE access -> '$.used' IS NOT NULL;
`,
	// Entries of other hosts are kept no more: streams fetch what they have missed from the host. The
	// numbers that these had are not given out again.
	`
INSERT INTO openintent_feed (one, last) SELECT 1, max(seq) FROM openintent_relayed WHERE true HAVING max(seq) IS NOT NULL
	ON CONFLICT (one) DO UPDATE SET last = max(last, excluded.last);
DROP TABLE openintent_relayed;
`,
}
