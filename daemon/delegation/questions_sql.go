package delegation

import (
	"database/sql"
	"errors"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// readQuestions returns all questions by the row of their delegation.
func readQuestions(tx *store.Tx) (map[int64][]*Question, error) {
	all := make(map[int64][]*Question)
	err := tx.EachRow("SELECT task, id, hash, since, length(payload), coalesce(length(answer), 0), answer IS NOT NULL FROM daemon_question ORDER BY since", func(scan func(...any) error) error {
		var row, since, size, answer int64
		q := &Question{written: true}
		if err := scan(&row, store.Blob(q.ID[:]), store.Blob(q.content[:]), &since, &size, &answer, &q.answered); err != nil {
			return err
		}
		if !q.answered {
			answer = kinds.MaxQuestion // room for one
		}
		q.since, q.share = store.FromMillis(since), size+answer
		all[row] = append(all[row], q)
		return nil
	})
	return all, err
}

// insertQuestion inserts a question about a delegation that is open. It returns the error for
// one that has ended.
func insertQuestion(tx *store.Tx, t *Delegation, q *Question, payload []byte) error {
	changed, err := tx.Exec(`UPDATE daemon_task SET questions = questions + 1, state = 'accepted' WHERE row = ? AND state IN ('sent', 'unknown', 'accepted')`, t.Row)
	if err != nil {
		return err
	}
	if n, err := changed.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, NewNotFoundError(t.ID))
	}
	_, err = tx.Exec("INSERT OR REPLACE INTO daemon_question (task, id, hash, since, payload) VALUES (?, ?, ?, ?, ?)", t.Row, q.ID[:], q.content[:], store.Millis(q.since), payload)
	return err
}

// updateAnswer writes the answer to an unanswered question, and reports whether it found that question.
func updateAnswer(tx *store.Tx, row int64, id wire.MessageID, answer []byte) (won bool, err error) {
	changed, err := tx.Exec("UPDATE daemon_question SET answer = ? WHERE task = ? AND id = ? AND answer IS NULL", answer, row, id[:])
	if err != nil {
		return false, err
	}
	n, err := changed.RowsAffected()
	return n > 0, err
}

// readAnswer returns the answer to a question, or nil.
func readAnswer(tx *store.Tx, row int64, id wire.MessageID) (answer []byte, err error) {
	err = tx.QueryRow("SELECT answer FROM daemon_question WHERE task = ? AND id = ?", row, id[:]).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return answer, err
}

// readQuestionText fills in the text of a question, or its beginning. The text stays empty if the
// question no longer exists.
func readQuestionText(tx *store.Tx, row int64, q *client.QuestionBack, whole bool) error {
	var payload wire.Payload
	err := tx.QueryRow("SELECT payload FROM daemon_question WHERE task = ? AND id = ?", row, q.ID[:]).Scan((*[]byte)(&payload))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	asked, err := kinds.ParsePayload[kinds.Query](payload)
	if err != nil {
		return err
	}
	if q.Text = asked.Question; !whole {
		q.Text = client.ClipText(q.Text, client.MaxBeginning)
	}
	return nil
}

func deleteQuestion(tx *store.Tx, row int64, id wire.MessageID) error {
	_, err := tx.Exec("DELETE FROM daemon_question WHERE task = ? AND id = ?", row, id[:])
	return err
}

func deleteUnansweredQuestion(tx *store.Tx, row int64, id wire.MessageID) error {
	_, err := tx.Exec("DELETE FROM daemon_question WHERE task = ? AND id = ? AND answer IS NULL", row, id[:])
	return err
}

// deleteQuestions deletes all questions about a delegation.
func deleteQuestions(tx *store.Tx, row int64) error {
	_, err := tx.Exec("DELETE FROM daemon_question WHERE task = ?", row)
	return err
}
