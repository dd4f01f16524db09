package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
)

const maxBatchBytes = 8 << 20

// listener is one owner's open stream of live events.
type listener struct {
	endpoint  string
	events    func([]kvstate.RouterEvent) // may block, which fills the socket's queue
	connected func(bool)                  // may block
	refused   func(error)                 // a batch, or an event of one, cannot be read
	logger    *slog.Logger
}

// run listens until ctx ends. The stream has three frames: the topic
// kv-state-events-v2, an 8-byte big-endian batch number, and a MessagePack array of
// events. The events' own numbers tell what is missing.
func (l *listener) run(ctx context.Context) {
	changes := make(chan bool, 1) // the newest state of the connection
	socket, err := zmqsock.NewSubscriber(zmqsock.SubscriberConfig{
		Endpoint: l.endpoint, Topics: []string{kvstate.EventTopic}, MaxMessage: maxBatchBytes, Logger: l.logger,
		Notify: func(e zmqsock.Event) {
			select {
			case <-changes:
			default:
			}
			changes <- e.Connected // nobody else sends
		},
	})
	if err != nil {
		l.refused(fmt.Errorf("event_endpoint: %w", err))
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = socket.Run(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-changes:
			l.connected(now)
		case m, open := <-socket.Messages():
			if !open {
				return
			}
			l.read(m.Frames)
		}
	}
}

func (l *listener) read(frames [][]byte) {
	if len(frames) != 3 || string(frames[0]) != kvstate.EventTopic || len(frames[1]) != 8 {
		l.refused(errors.New("a batch is three frames: topic, 8-byte number, events"))
		return
	}
	batch, err := kvstate.DecodeEvents(frames[2])
	if err != nil {
		l.refused(err)
		return
	}
	if batch.Refused > 0 {
		l.refused(batch.Why)
	}
	if len(batch.Events) > 0 {
		l.events(batch.Events)
	}
}
