package web

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/internal/pace"
)

const (
	updatePause = 100 * time.Millisecond // between two updates of a page
	beatPause   = 15 * time.Second       // between two signs that a stream lives, if nothing changes
)

// serveEvents streams to a page what changes (Server-Sent Events, HTML Standard, section 9.2), at most
// ten times a second, until the page goes.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	reader := s.board.addReader()
	if reader == nil {
		http.Error(w, fmt.Sprintf("The page is open %d times already: close one.", maxReaders), http.StatusServiceUnavailable)
		return
	}
	defer s.board.removeReader(reader)

	stream := http.NewResponseController(w)
	stream.SetReadDeadline(time.Time{}) // that of the request; a stream lasts
	w.Header().Set("Content-Type", "text/event-stream")
	beat := time.NewTicker(beatPause)
	defer beat.Stop()
	for err := error(nil); err == nil; {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			err = writeEvent(w, stream, nil)
		case <-reader.changed:
			if err = writeEvent(w, stream, s.board.next(reader)); err == nil {
				err = pace.Sleep(r.Context(), updatePause)
			}
		}
	}
}

// writeEvent writes an update, or nothing but a sign of life if that is nil, within requestTime.
func writeEvent(w http.ResponseWriter, stream *http.ResponseController, u *update) error {
	stream.SetWriteDeadline(time.Now().Add(requestTime))
	event := []byte(":\n\n")
	if u != nil {
		text, err := json.Marshal(u)
		if err != nil {
			return err
		}
		event = append(append([]byte("data: "), text...), "\n\n"...) // JSON has no line breaks
	}
	if _, err := w.Write(event); err != nil {
		return err
	}
	return stream.Flush()
}
