package peer

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/quic-go/quic-go"
)

// What lies unread on a connection is bounded in bytes by QUIC's flow control, but
// quic-go keeps every STREAM frame for itself until it is read: a frame of one byte
// takes 136 bytes, one of 128 bytes takes a packet's buffer. It has no word for how
// many there are. Bytes on the wire do not say it either, since acknowledgements
// and headers are never read, and its tracer costs 15 % of a large message. So,
// for connections on which much has come, unreadFrames counts them where they lie.

// Fields of quic-go's structs, by their place. A version that is laid out otherwise
// is refused when the package starts, and by its tests.
var (
	connStreams = place[quic.Conn]("streamsMap")
	streamRead  = place[quic.Stream]("receiveStr")
	readLock    = place[quic.ReceiveStream]("mutex")
	readQueue   = place[quic.ReceiveStream]("frameQueue")
	queueFrames = placeIn(reflect.TypeFor[quic.ReceiveStream]().Field(readQueue).Type.Elem(), "queue")
)

func place[T any](name string) int { return placeIn(reflect.TypeFor[T](), name) }

func placeIn(t reflect.Type, name string) int {
	f, ok := t.FieldByName(name)
	if !ok {
		panic(fmt.Sprintf("peer: %v has no field %s in this version of quic-go: frames.go has to be adapted to it", t, name))
	}
	return f.Index[0]
}

// unreadFrames returns how many STREAM frames of the peer lie unread on a
// connection, those included that no reader can get at since one before them is
// missing. It takes quic-go's own locks, each for a moment.
func unreadFrames(qc *quic.Conn) (frames int) {
	streams := reflect.ValueOf(qc).Elem().Field(connStreams).Elem()
	for _, name := range []string{"incomingBidiStreams", "incomingUniStreams", "outgoingBidiStreams"} {
		for _, s := range streamsIn(streams.FieldByName(name).Elem()) {
			if s.Type() == reflect.TypeFor[*quic.Stream]() {
				s = s.Elem().Field(streamRead)
			}
			frames += framesOf(s.Elem())
		}
	}
	return frames
}

// streamsIn returns the streams of one type and direction.
func streamsIn(m reflect.Value) (all []reflect.Value) {
	lock := (*sync.RWMutex)(m.FieldByName("mutex").Addr().UnsafePointer())
	lock.RLock()
	defer lock.RUnlock()
	for i := m.FieldByName("streams").MapRange(); i.Next(); {
		s := i.Value()
		if s.Kind() == reflect.Struct { // an entry, which also says how far it has come
			s = s.FieldByName("stream")
		}
		all = append(all, s)
	}
	return all
}

// framesOf returns how many frames a receiving half keeps.
func framesOf(s reflect.Value) int {
	lock := (*sync.Mutex)(s.Field(readLock).Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()
	return s.Field(readQueue).Elem().Field(queueFrames).Len()
}
