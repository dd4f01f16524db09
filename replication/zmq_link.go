package replication

import (
	"context"
	"sync"
	"time"

	"mooring/internal/zmqsock"
)

// link is the SUB socket of one peer, from dial until stop.
type link struct {
	endpoint string
	socket   *zmqsock.Subscriber
	stop     context.CancelFunc
	done     chan struct{} // closed when nothing of it runs any more

	mu struct {
		sync.Mutex
		connected bool
		since     time.Time
		told      told
	}
}

// dial starts a link; z.mu is held. The endpoint was checked.
func (z *ZMQ) dial(endpoint string) *link {
	ctx, stop := context.WithCancel(z.ctx)
	l := &link{endpoint: endpoint, stop: stop, done: make(chan struct{})}
	socket, err := zmqsock.NewSubscriber(zmqsock.SubscriberConfig{
		Endpoint: endpoint, Topics: []string{TopicV2, TopicV1, TopicSync},
		QueueMessages: meshQueue, QueueBytes: meshQueueBytes, MaxMessage: maxReceived,
		// A replica that starts waits for its peers to come back.
		MaxBackoff: 250 * time.Millisecond,
		// Mooring says each second that it is there. Other publishers may be silent
		// for as long as they like.
		IdleTimeout: silence, IdleTopic: TopicSync,
		Notify: func(e zmqsock.Event) { z.noted(l, e) }, Logger: z.cfg.Logger,
	})
	if err != nil {
		panic("replication: an endpoint that was checked is wrong: " + err.Error())
	}
	l.socket = socket
	z.all.Go(func() {
		defer close(l.done)
		defer stop()
		defer l.tellNoMore()
		ended := make(chan struct{})
		go func() { defer close(ended); socket.Run(ctx) }()
		z.forward(ctx, l)
		<-ended
		z.tally.overflow.Add(socket.Stats().Dropped)
	})
	return l
}

// forward hands over what the peer sends until ctx ends.
func (z *ZMQ) forward(ctx context.Context, l *link) {
	for raw := range l.socket.Messages() {
		m, why := messageOf(raw.Frames)
		if why != accepted {
			z.tally.refused[why].Inc()
			continue
		}
		m.From = l.endpoint
		select {
		case z.in <- m:
		case <-ctx.Done():
			return
		}
	}
}

// noted keeps a change of the connection, and has it logged. It must not block.
func (z *ZMQ) noted(l *link, e zmqsock.Event) {
	l.mu.Lock()
	if l.mu.since.IsZero() || l.mu.connected != e.Connected {
		l.mu.connected, l.mu.since, l.mu.told.change = e.Connected, time.Now(), e
	}
	l.mu.Unlock()
	z.tell(l)
	if !e.Connected {
		z.tally.lost.WithLabelValues(e.Reason.String()).Inc()
		return
	}
	select {
	case z.connected <- struct{}{}:
	default:
	}
}

func (l *link) link() Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Link{Endpoint: l.endpoint, Connected: l.mu.connected, Since: l.mu.since}
}

// refusal says why frames are no message of the mesh.
type refusal uint8

const (
	accepted    refusal = iota
	wrongFrames         // not two or three
	wrongTopic          // none of ours: subscriptions match prefixes, the mesh does not
	tooLarge
	refusals
)

// String returns the metric's label.
func (r refusal) String() string {
	return [refusals]string{"accepted", "frames", "topic", "too_large"}[r]
}

// messageOf takes the frames of a message; they stay the message's.
func messageOf(frames [][]byte) (Message, refusal) {
	if len(frames) != 2 && len(frames) != 3 {
		return Message{}, wrongFrames
	}
	m := Message{Payload: frames[1]}
	switch string(frames[0]) {
	case TopicV2:
		m.Topic = TopicV2
	case TopicV1:
		m.Topic = TopicV1
	case TopicSync:
		m.Topic = TopicSync
	default:
		return Message{}, wrongTopic
	}
	if len(m.Payload) > MaxPayload {
		return Message{}, tooLarge
	}
	if len(frames) == 3 {
		m.Auth = frames[2]
	}
	return m, accepted
}
