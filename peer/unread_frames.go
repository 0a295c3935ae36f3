package peer

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/quic-go/quic-go"
)

// Unread data on a connection is bounded in bytes by QUIC's flow control, but
// quic-go keeps every STREAM frame for itself until it is read: a frame of one byte
// takes 136 bytes, one of 128 bytes takes a packet's buffer. quic-go does not tell how
// many there are. Bytes on the wire do not tell it either, since acknowledgements
// and headers are never read, and its tracer costs 15 % of a large message. So,
// for connections on which much has come, countUnreadFrames counts them where they lie.

// Fields of quic-go's structs, by their place. A version that is laid out otherwise
// is refused when the package starts, and by its tests.
var (
	connStreams = findFieldIndexOf[quic.Conn]("streamsMap")
	streamRead  = findFieldIndexOf[quic.Stream]("receiveStr")
	readLock    = findFieldIndexOf[quic.ReceiveStream]("mutex")
	readQueue   = findFieldIndexOf[quic.ReceiveStream]("frameQueue")
	queueFrames = findFieldIndex(reflect.TypeFor[quic.ReceiveStream]().Field(readQueue).Type.Elem(), "queue")

	streamMaps = []streamMap{newStreamMap("incomingBidiStreams"), newStreamMap("incomingUniStreams"), newStreamMap("outgoingBidiStreams")}
)

// streamMap says by field indexes in which map a connection keeps its streams of one type
// and direction.
type streamMap struct {
	at, lock, streams int
	stream            int  // of an entry, which also says how far it has come; -1: the entry is the stream
	both              bool // it has a sending half too
}

func newStreamMap(name string) (m streamMap) {
	all := reflect.TypeFor[quic.Conn]().Field(connStreams).Type.Elem()
	m.at = findFieldIndex(all, name)
	one := all.Field(m.at).Type.Elem()
	m.lock, m.streams, m.stream = findFieldIndex(one, "mutex"), findFieldIndex(one, "streams"), -1
	entry := one.Field(m.streams).Type.Elem()
	if entry.Kind() == reflect.Struct {
		m.stream = findFieldIndex(entry, "stream")
		entry = entry.Field(m.stream).Type
	}
	m.both = entry == reflect.TypeFor[*quic.Stream]()
	return m
}

func findFieldIndexOf[T any](name string) int { return findFieldIndex(reflect.TypeFor[T](), name) }

func findFieldIndex(t reflect.Type, name string) int {
	f, ok := t.FieldByName(name)
	if !ok {
		panic(fmt.Sprintf("peer: %v has no field %s in this version of quic-go: unread_frames.go has to be adapted to it", t, name))
	}
	return f.Index[0]
}

// countUnreadFrames returns how many STREAM frames of the peer lie unread on a
// connection, those included that no reader can get at since one before them is
// missing. It takes quic-go's own locks, each for a moment.
func countUnreadFrames(qc *quic.Conn) (frames int) {
	streams := reflect.ValueOf(qc).Elem().Field(connStreams).Elem()
	for _, m := range streamMaps {
		for _, s := range m.listStreams(streams) {
			if m.both {
				s = s.Elem().Field(streamRead)
			}
			frames += countQueuedFrames(s.Elem())
		}
	}
	return frames
}

// listStreams returns the streams of one type and direction.
func (m streamMap) listStreams(streams reflect.Value) []reflect.Value {
	one := streams.Field(m.at).Elem()
	lock := (*sync.RWMutex)(one.Field(m.lock).Addr().UnsafePointer())
	lock.RLock()
	defer lock.RUnlock()
	there := one.Field(m.streams)
	all := make([]reflect.Value, 0, there.Len())
	for i := there.MapRange(); i.Next(); {
		s := i.Value()
		if m.stream >= 0 {
			s = s.Field(m.stream)
		}
		all = append(all, s)
	}
	return all
}

// countQueuedFrames returns how many frames a receiving half keeps.
func countQueuedFrames(s reflect.Value) int {
	lock := (*sync.Mutex)(s.Field(readLock).Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()
	return s.Field(readQueue).Elem().Field(queueFrames).Len()
}
