package watch

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// A subscriber that reads too slowly is told of each event and message that it has not got, whatever it
// has selected, as soon as it reads; and again if it stands still again.
func TestASubscriberIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no machine is too slow to read within 5 s
		near, far := net.Pipe()
		conn := &local.Conn{Conn: jsonrpc.NewConn(near, jsonrpc.Options{PushBack: true})}
		ended := make(chan error, 1)
		go func() { ended <- conn.Run(t.Context()) }()
		s := newService(t)
		sub := &subscription{conn: conn, SubscribeParams: client.SubscribeParams{Kinds: []string{kinds.KindNotify}, Events: client.EventFilter{Types: []client.EventType{client.EventDown}}}}
		s.subscribers.replace(conn, sub)
		env := wire.NewEnvelope(identity.ID{1}, identity.ID{2}, kinds.KindNotify, kinds.EncodePayload(&kinds.Notify{Topic: "ci"}))
		sent := &peer.Passing{Checked: kinds.Checked{Envelope: env, Topic: "ci"}}
		lines := bufio.NewReader(far)
		const many = 3000 // more than wait on a connection
		for range 2 {
			for range many {
				s.sendEvent(client.Event{Type: client.EventDown})
				s.sendEvent(client.Event{Type: client.EventUp}) // which it does not want
				s.sendMessage(sent, env, client.Out)
			}
			var got, missed client.Missed
			for got.Events+missed.Events < many || got.Messages+missed.Messages < many {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err, got, missed)
				}
				var n struct {
					Method string       `json:"method"`
					Params client.Event `json:"params"`
				}
				switch {
				case strings.Contains(line, `"method":"message"`):
					got.Messages++
				case json.Unmarshal([]byte(line), &n) != nil || n.Method != client.NotificationEvent:
					t.Fatal(line)
				case n.Params.Type == client.EventMissed:
					var more client.Missed
					if err := json.Unmarshal(n.Params.Details, &more); err != nil || more == (client.Missed{}) || n.Params.At.IsZero() {
						t.Fatal(line, err)
					}
					missed.Messages += more.Messages
					missed.Events += more.Events
				case n.Params.Type == client.EventDown:
					got.Events++
				default:
					t.Fatal(line)
				}
			}
			if got.Events+missed.Events != many || got.Messages+missed.Messages != many || missed.Events == 0 || missed.Messages == 0 {
				t.Errorf("got %v, missed %v of %d each", got, missed, many)
			}
		}
		// When the connection ends, nobody tells any more.
		for range many {
			s.sendEvent(client.Event{Type: client.EventDown})
		}
		far.Close()
		<-ended
		synctest.Wait()
	})
}
