# acoer on a CPU. The first stage compiles, the second has neither compiler nor Python. In a checkout:
#
#   docker build -t acoer .
#   docker run --rm -v "$PWD:/work" -v acoer-models:/cache/huggingface acoer train --preset tiny --out run
#
# Secrets such as HF_TOKEN belong to `docker run -e`, never to a build.
FROM node:22-bookworm AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends cmake ninja-build python3-pip \
  && rm -rf /var/lib/apt/lists/*
# libtorch goes to /cache/acoer, at the path that the second stage has it at, too.
ENV XDG_CACHE_HOME=/cache
WORKDIR /src
COPY . .
RUN npm ci
RUN mkdir /packed \
  && npm pack --pack-destination /packed \
  && npm pack -w packages/linux-x64-cpu --pack-destination /packed

FROM node:22-bookworm-slim
ENV XDG_CACHE_HOME=/cache
COPY --from=build /cache/acoer /cache/acoer
COPY --from=build /packed /packed
WORKDIR /opt/acoer
RUN npm install --no-audit --no-fund /packed/*.tgz \
  && npx acoer setup \
  && npm cache clean --force \
  && mkdir -p /cache/huggingface /work \
  && chown node:node /cache/huggingface /work
ENV PATH=/opt/acoer/node_modules/.bin:$PATH
USER node
WORKDIR /work
VOLUME /cache/huggingface
ENTRYPOINT ["acoer"]
