package remote

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/store"
)

// All SQL of the package. Times are unix milliseconds.

// schema holds the steps by which these tables came about. A released one never changes.
var schema = []string{`
CREATE TABLE carrier_parcel (
	seq    INTEGER PRIMARY KEY AUTOINCREMENT,
	id     TEXT NOT NULL UNIQUE,
	host   BLOB NOT NULL,
	agent  TEXT NOT NULL,
	key    TEXT NOT NULL,
	path   TEXT NOT NULL,
	body   BLOB NOT NULL,
	at     INTEGER NOT NULL,
	status INTEGER NOT NULL,
	answer BLOB NOT NULL
) STRICT;
CREATE INDEX carrier_parcel_line ON carrier_parcel (host, agent, seq);
CREATE TABLE carrier_guest (
	host   BLOB NOT NULL,
	agent  TEXT NOT NULL,
	record TEXT NOT NULL,
	PRIMARY KEY (host, agent)
) STRICT, WITHOUT ROWID;`, `
DELETE FROM carrier_parcel WHERE status <> 0;
ALTER TABLE carrier_parcel ADD COLUMN refusal BLOB NOT NULL DEFAULT x'';
CREATE INDEX carrier_parcel_refused ON carrier_parcel (at, seq) WHERE status <> 0;
CREATE INDEX carrier_parcel_refused_of ON carrier_parcel (host, agent, seq) WHERE status <> 0;
CREATE INDEX carrier_parcel_agent ON carrier_parcel (agent, seq);`,
	// The records that hosts had of agents here: each request carries its agent's record instead.
	"DROP TABLE carrier_guest;",
}

// idColumn scans a column that holds the id of a host.
type idColumn struct{ id *identity.ID }

func (c idColumn) Scan(column any) error {
	copy(c.id[:], column.([]byte))
	return nil
}

// errEnough ends a read when no more rows are wanted.
var errEnough = ownwords.New("enough")

// readInTransaction returns what get reads in a transaction.
func readInTransaction[T any](ctx context.Context, db *store.DB, get func(*store.Tx) (T, error)) (v T, err error) {
	err = db.Read(ctx, func(tx *store.Tx) error {
		v, err = get(tx)
		return err
	})
	return v, err
}

// execStatement runs a statement. Only its error matters.
func execStatement(tx *store.Tx, statement string, args ...any) error {
	_, err := tx.Exec(statement, args...)
	return err
}

// Messages for other hosts.

const messageColumns = "seq, id, host, agent, key, path, body, status, answer, refusal"

func scanMessage(row interface{ Scan(...any) error }) (*outgoingMessage, error) {
	p := new(outgoingMessage)
	err := row.Scan(&p.seq, &p.id, idColumn{&p.host}, &p.agent, &p.idempotencyKey, &p.path, &p.body, &p.status, &p.answer, &p.refusal)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return p, err
}

// sqlCountWaitingBySender returns how many messages of each sender wait, and how many bytes in all.
func sqlCountWaitingBySender(tx *store.Tx) (waiting map[senderKey]int, bytes int, err error) {
	waiting = make(map[senderKey]int)
	err = tx.EachRow("SELECT host, agent, count(*), sum(length(body)) FROM carrier_parcel WHERE status = 0 GROUP BY host, agent", func(scan func(...any) error) error {
		var k senderKey
		var n, size int
		err := scan(idColumn{&k.host}, &k.agent, &n, &size)
		waiting[k], bytes = n, bytes+size
		return err
	})
	return waiting, bytes, err
}

func sqlReadMessage(tx *store.Tx, id string) (*outgoingMessage, error) {
	return scanMessage(tx.QueryRow("SELECT "+messageColumns+" FROM carrier_parcel WHERE id = ?", id))
}

func sqlReadFirstWaitingMessage(tx *store.Tx, k senderKey) (*outgoingMessage, error) {
	return scanMessage(tx.QueryRow("SELECT "+messageColumns+" FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0 ORDER BY seq LIMIT 1", k.host[:], k.agent))
}

// sqlReadWaitingMessages reads the first waiting messages of a sender for a channel in their order, until
// more returns false.
func sqlReadWaitingMessages(tx *store.Tx, k senderKey, channel string, most int, more func(*outgoingMessage) bool) error {
	err := tx.EachRow("SELECT id, answer FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0 AND (path = ? OR substr(path, 1, length(?)) = ?) ORDER BY seq LIMIT ?", func(scan func(...any) error) error {
		p := new(outgoingMessage)
		if err := scan(&p.id, &p.answer); err != nil {
			return err
		}
		if !more(p) {
			return errEnough
		}
		return nil
	}, k.host[:], k.agent, channel, channel+"/", channel+"/", most)
	if err == errEnough {
		return nil
	}
	return err
}

// sqlFindMessageByKey returns the sender's message for a channel with that idempotency key; nil if there
// is none.
func sqlFindMessageByKey(tx *store.Tx, k senderKey, channel, key string) (*outgoingMessage, error) {
	return scanMessage(tx.QueryRow("SELECT "+messageColumns+" FROM carrier_parcel WHERE host = ? AND agent = ? AND key = ? AND substr(path, 1, length(?)) = ? ORDER BY seq LIMIT 1",
		k.host[:], k.agent, key, channel, channel))
}

func sqlInsertWaitingMessage(tx *store.Tx, p *outgoingMessage, at time.Time) error {
	_, err := tx.Exec("INSERT INTO carrier_parcel (id, host, agent, key, path, body, at, status, answer) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
		p.id, p.host[:], p.agent, p.idempotencyKey, p.path, p.body, at.UnixMilli(), p.answer)
	return err
}

func sqlDeleteMessage(tx *store.Tx, seq int64) error {
	return execStatement(tx, "DELETE FROM carrier_parcel WHERE seq = ?", seq)
}

// sqlSetMessageRefused stores that the host has refused a message.
func sqlSetMessageRefused(tx *store.Tx, p *outgoingMessage, at time.Time) error {
	return execStatement(tx, "UPDATE carrier_parcel SET status = ?, answer = ?, refusal = ?, body = ?, at = ? WHERE seq = ?", p.status, p.answer, p.refusal, p.body, at.UnixMilli(), p.seq)
}

// sqlTrimRefusedMessages drops the oldest refused messages: of the sender beyond most, of all senders
// beyond mostAll.
func sqlTrimRefusedMessages(tx *store.Tx, k senderKey, most, mostAll int) error {
	err := execStatement(tx, "DELETE FROM carrier_parcel WHERE seq = (SELECT seq FROM carrier_parcel WHERE host = ? AND agent = ? AND status <> 0 ORDER BY seq DESC LIMIT 1 OFFSET ?)", k.host[:], k.agent, most)
	if err == nil {
		err = execStatement(tx, "DELETE FROM carrier_parcel WHERE seq IN (SELECT seq FROM carrier_parcel WHERE status <> 0 ORDER BY at DESC, seq DESC LIMIT -1 OFFSET ?)", mostAll)
	}
	return err
}

// sqlDeleteRefusedBefore drops the messages that were refused before then.
func sqlDeleteRefusedBefore(tx *store.Tx, before time.Time) error {
	return execStatement(tx, "DELETE FROM carrier_parcel WHERE status <> 0 AND at < ?", before.UnixMilli())
}

const (
	unsentOfAll   = "SELECT seq, host, answer FROM carrier_parcel WHERE seq > ? ORDER BY seq LIMIT ?"
	unsentOfAgent = "SELECT seq, host, answer FROM carrier_parcel WHERE agent = ? AND seq > ? ORDER BY seq LIMIT ?"
)

// sqlReadUnsentMessages reads the messages of an agent (of all agents if it is ""), in the order in which
// they were sent, from the first after that seq on. They wait or were refused. An error of each
// ends the read.
func sqlReadUnsentMessages(tx *store.Tx, agent string, limit int, after int64, each func(seq int64, host identity.ID, message []byte) error) error {
	row := func(scan func(...any) error) error {
		var seq int64
		var host identity.ID
		var message []byte
		if err := scan(&seq, idColumn{&host}, &message); err != nil {
			return err
		}
		return each(seq, host, message)
	}
	if agent == "" {
		return tx.EachRow(unsentOfAll, row, after, limit)
	}
	return tx.EachRow(unsentOfAgent, row, agent, after, limit)
}

// sqlListMessageHosts returns the hosts of all messages, whether these wait or were refused.
func sqlListMessageHosts(tx *store.Tx) (hosts []identity.ID, err error) {
	err = tx.EachRow("SELECT DISTINCT host FROM carrier_parcel", func(scan func(...any) error) error {
		var host identity.ID
		err := scan(idColumn{&host})
		hosts = append(hosts, host)
		return err
	})
	return hosts, err
}

func sqlDeleteRefusedMessages(tx *store.Tx, host identity.ID) error {
	return execStatement(tx, "DELETE FROM carrier_parcel WHERE host = ? AND status <> 0", host[:])
}

// sqlDeleteWaitingMessages drops the messages of a sender that wait. It returns how many they were, and the
// bytes of their bodies.
func sqlDeleteWaitingMessages(tx *store.Tx, k senderKey) (n, bytes int, err error) {
	err = tx.QueryRow("SELECT count(*), coalesce(sum(length(body)), 0) FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0", k.host[:], k.agent).Scan(&n, &bytes)
	if err == nil {
		err = execStatement(tx, "DELETE FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0", k.host[:], k.agent)
	}
	return n, bytes, err
}
